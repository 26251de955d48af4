"""get, list, watch, create, update, patch, delete, scale, bind, evict: one module per verb."""
