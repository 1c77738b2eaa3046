package wire

// What a cell is told whose kernel began anew before it had answered: by its agent, or by who stands in for it in a
// session.
const (
	DeadKernel = "DeadKernel"
	BegunAnew  = "the kernel began anew, and its variables are gone: run the cells again that it needs"
)

// Failure is the content of an error, and part of an answer that tells of one.
func Failure(name, why string) map[string]any {
	return map[string]any{"ename": name, "evalue": why, "traceback": []string{name + ": " + why}}
}
