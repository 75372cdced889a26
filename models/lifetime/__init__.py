"""How long jobs run: whole distributions, given what is known at submit and at every age."""
