"""Wrong arguments: of other types, and integers without bounds."""
