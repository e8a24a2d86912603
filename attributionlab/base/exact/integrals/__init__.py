"""Path integrals without the error of a quadrature: kinks found, pieces integrated in closed form."""
