package wire

import "strings"

// The variables of a kernel's environment by which its clients say what is meant. All that they may set begins with
// VariablePrefix.
const (
	VariablePrefix = "KERNEL_"
	// the kernel's id, a UUID of the client's choice: asking again with it is harmless
	IDVariable    = VariablePrefix + "ID"
	SpecVariable  = VariablePrefix + "SPEC"        // the kernelspec, for clients that can only ask for any Python
	DirVariable   = VariablePrefix + "WORKING_DIR" // where the kernel begins, if it is there
	HintsVariable = VariablePrefix + "SLICE_HINTS" // whether its notebook gets hints of another slice
)

// LongestValue is how many bytes the value of such a variable may have.
const LongestValue = 4096

// PlainValue reports whether a value of such a variable is passed on. Some clients' values end up in shells: nothing
// there is to start one.
func PlainValue(value string) bool {
	return len(value) <= LongestValue && !strings.ContainsAny(value, "$`\n\r\x00")
}
