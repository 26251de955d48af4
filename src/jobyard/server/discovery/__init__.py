"""What the server tells about itself: groups, resources, OpenAPI, health, what it lacks."""
