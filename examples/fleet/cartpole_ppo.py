"""PPO on CartPole-v1 with a fleet: two actor workers, a trainer, an evaluation worker, a parameter store.

argosy launch examples/fleet/cartpole_ppo.py                     a local Ray is started for it
argosy launch examples/fleet/cartpole_ppo.py --in-threads        everything in one process
argosy launch examples/fleet/cartpole_ppo.py --address auto      on the cluster that this machine belongs to
"""

from argosy.distributed import ActorGroup, AgentSpec, EvalGroup, Fleet, FleetStop, PolicySpec, Resources
from argosy.presets import preset

small = Resources(num_cpus=0.5)

fleet = Fleet(
    name="cartpole-ppo",
    policies={
        # The very experiment that `argosy train ppo --task CartPole-v1` runs in one process
        "ppo": PolicySpec(experiment=preset("ppo", "CartPole-v1", seed=1)),
    },
    agents=(AgentSpec(policy="ppo", sample_steps=128),),
    actors=ActorGroup(count=2, resources=small),
    evaluation=EvalGroup(episodes=20, resources=small),
    stop=FleetStop(return_mean={"ppo": 475.0}, env_steps=300_000),
)
