"""Request and response bodies: what is on the wire, with bounds."""
