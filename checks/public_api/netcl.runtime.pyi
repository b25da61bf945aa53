# netcl-core 0.1.0

