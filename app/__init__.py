"""The application: command line, service, pictures. Everything that touches the outside world."""
