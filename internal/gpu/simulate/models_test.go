package simulate

import "slipway/internal/gpu/simulated"

func models() Models { return Models{Find: simulated.Model, Names: simulated.Models()} }
