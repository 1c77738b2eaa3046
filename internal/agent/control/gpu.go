package control

// What a workload with a slice of a GPU is given of the host's driver lies below RunDir: there it leaves no trace in
// the workload's own files, which another start, without a GPU, or an environment would then hold.
const (
	GPUDir    = RunDir + "/gpu"   // holds lib/, the driver's libraries, and bin/, its programs
	GPUDirEnv = "SLIPWAY_GPU_DIR" // set to GPUDir where there are any: the agent lets the app find them
	GPULibDir = GPUDir + "/lib"   // comes last in the app's LD_LIBRARY_PATH, so what an image brings along goes first
	GPUBinDir = GPUDir + "/bin"   // comes last in its PATH
)
