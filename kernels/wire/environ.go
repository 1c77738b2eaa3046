package wire

// The variables of a kernel's environment by which its clients say what is meant. All that they may set begins with VariablePrefix.
const (
	VariablePrefix = "KERNEL_"
	IDVariable     = VariablePrefix + "ID"          // the kernel's id, a UUID of the client's choice: asking again with it is harmless
	SpecVariable   = VariablePrefix + "SPEC"        // the kernelspec, for clients that can only ask for any Python
	DirVariable    = VariablePrefix + "WORKING_DIR" // where the kernel begins, if it is there
	HintsVariable  = VariablePrefix + "SLICE_HINTS" // HintsOff: no hints on the use of the slice
	HintsOff       = "off"
)
