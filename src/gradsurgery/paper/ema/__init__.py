"""The role of the moving average: ``language`` at lam = 0.2, for several speeds rho of Bloop's average."""
