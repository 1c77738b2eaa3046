package placementsim

import "slipway/internal/gpu/fakegpu"

func models() Models { return Models{Find: fakegpu.Model, Names: fakegpu.Models()} }
