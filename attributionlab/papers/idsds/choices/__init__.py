"""How a network's design changes the IDSDS of attribution methods: section 4.3 and appendix D."""
