"""Objects in memory and on disk, in versions: no module here knows a kind or a request."""
