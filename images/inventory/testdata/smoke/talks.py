"""Write where the answer is awaited."""

print("slipway-smoke: nonsense")
