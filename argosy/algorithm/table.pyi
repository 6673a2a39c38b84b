"""The table of algorithms, a line each: module, class, config. Type checkers read it as imports, argosy as a table."""

from argosy.algorithm.a2c import A2C as A2C, A2CConfig as A2CConfig
from argosy.algorithm.awac import AWAC as AWAC, AWACConfig as AWACConfig
from argosy.algorithm.bc import BC as BC, BCConfig as BCConfig
from argosy.algorithm.bcq import BCQ as BCQ, BCQConfig as BCQConfig
from argosy.algorithm.branching_dqn import BranchingDQN as BranchingDQN, BranchingDQNConfig as BranchingDQNConfig
from argosy.algorithm.c51 import C51 as C51, C51Config as C51Config
from argosy.algorithm.cql import CQL as CQL, CQLConfig as CQLConfig
from argosy.algorithm.crossq import CrossQ as CrossQ, CrossQConfig as CrossQConfig
from argosy.algorithm.dagger import DAgger as DAgger, DAggerConfig as DAggerConfig
from argosy.algorithm.ddpg import DDPG as DDPG, DDPGConfig as DDPGConfig
from argosy.algorithm.decision_transformer import (
    DecisionTransformer as DecisionTransformer,
    DecisionTransformerConfig as DecisionTransformerConfig,
)
from argosy.algorithm.discrete_bcq import DiscreteBCQ as DiscreteBCQ, DiscreteBCQConfig as DiscreteBCQConfig
from argosy.algorithm.discrete_cql import DiscreteCQL as DiscreteCQL, DiscreteCQLConfig as DiscreteCQLConfig
from argosy.algorithm.discrete_crr import DiscreteCRR as DiscreteCRR, DiscreteCRRConfig as DiscreteCRRConfig
from argosy.algorithm.discrete_sac import DiscreteSAC as DiscreteSAC, DiscreteSACConfig as DiscreteSACConfig
from argosy.algorithm.dqn import DQN as DQN, DQNConfig as DQNConfig
from argosy.algorithm.droq import DroQ as DroQ, DroQConfig as DroQConfig
from argosy.algorithm.fqf import FQF as FQF, FQFConfig as FQFConfig
from argosy.algorithm.gail import GAIL as GAIL, GAILConfig as GAILConfig
from argosy.algorithm.impala import IMPALA as IMPALA, IMPALAConfig as IMPALAConfig
from argosy.algorithm.iql import IQL as IQL, IQLConfig as IQLConfig
from argosy.algorithm.iqn import IQN as IQN, IQNConfig as IQNConfig
from argosy.algorithm.npg import NPG as NPG, NPGConfig as NPGConfig
from argosy.algorithm.ppg import PPG as PPG, PPGConfig as PPGConfig
from argosy.algorithm.ppo import PPO as PPO, PPOConfig as PPOConfig
from argosy.algorithm.psrl import PSRL as PSRL, PSRLConfig as PSRLConfig
from argosy.algorithm.qmix import QMIX as QMIX, QMIXConfig as QMIXConfig
from argosy.algorithm.qrdqn import QRDQN as QRDQN, QRDQNConfig as QRDQNConfig
from argosy.algorithm.r2d2 import R2D2 as R2D2, R2D2Config as R2D2Config
from argosy.algorithm.rainbow import Rainbow as Rainbow, RainbowConfig as RainbowConfig
from argosy.algorithm.rebrac import ReBRAC as ReBRAC, ReBRACConfig as ReBRACConfig
from argosy.algorithm.redq import REDQ as REDQ, REDQConfig as REDQConfig
from argosy.algorithm.reinforce import REINFORCE as REINFORCE, REINFORCEConfig as REINFORCEConfig
from argosy.algorithm.sac import SAC as SAC, SACConfig as SACConfig
from argosy.algorithm.spo import SPO as SPO, SPOConfig as SPOConfig
from argosy.algorithm.td3 import TD3 as TD3, TD3Config as TD3Config
from argosy.algorithm.td3_bc import TD3BC as TD3BC, TD3BCConfig as TD3BCConfig
from argosy.algorithm.tqc import TQC as TQC, TQCConfig as TQCConfig
from argosy.algorithm.trpo import TRPO as TRPO, TRPOConfig as TRPOConfig
