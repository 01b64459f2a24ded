# SPDX-License-Identifier: Apache-2.0
# JAX's sharding, for docs/coming_from/jax.md:
#   PJRT_NPROC=8 XLA_FLAGS=--xla_force_host_platform_device_count=4 python3 sharding.py
# (on two cores four devices wait for each other without the first)
# example-begin
import jax
import jax.numpy as jnp
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((2, 2), ("data", "tensor"), axis_types=(AxisType.Auto, AxisType.Auto))
put = lambda value, *axes: jax.device_put(value, NamedSharding(mesh, P(*axes)))

first, second, samples = jax.random.split(jax.random.key(0), 3)
weights = {                                                   # each a decision of the program
    "w1": put(0.3 * jax.random.normal(first, (3, 32)), None, "tensor"),    # by columns
    "b1": put(jnp.zeros(32), "tensor"),
    "w2": put(0.3 * jax.random.normal(second, (32, 1)), "tensor", None),   # by rows
    "b2": put(jnp.zeros(1)),
}

def loss(weights, x, y):
    hidden = jax.nn.gelu(x @ weights["w1"] + weights["b1"])
    return jnp.mean((hidden @ weights["w2"] + weights["b2"] - y) ** 2)

@jax.jit
def step(weights, x, y):
    value, slope = jax.value_and_grad(loss)(weights, x, y)    # XLA finds what has to be sent
    return value, jax.tree.map(lambda w, g: w - 0.05 * g, weights, slope)

x = put(jax.random.normal(samples, (32, 3)), "data", None)
y = x[:, :1] * x[:, 1:2] + 0.5 * x[:, 2:]
for i in range(401):
    value, weights = step(weights, x, y)
    if i % 200 == 0:
        print(f"step {i:3d}  loss {value:.4f}")
text = step.lower(weights, x, y).compile().as_text()
print(f"{text.count(' all-reduce(')} all-reduce in the compiled step")
# example-end
