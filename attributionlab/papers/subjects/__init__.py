"""Networks, pictures and digits that items of several papers share."""
