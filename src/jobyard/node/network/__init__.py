"""How pods find and reach one another: addresses, names, services, ports."""
