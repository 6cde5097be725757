"""The reference of the library: manual pages and HTML, made from the comments of its headers."""
