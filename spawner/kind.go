package spawner

// Kind says what a workload runs. What is true of all of a kind its methods say: code that treats some kinds in another
// way asks for that, so that a further kind has one place. What is done in another way for a kind is in engine.Kind.
type Kind string

// The kinds of workload. All but Job are sessions.
const (
	Lab  Kind = "lab"  // JupyterLab
	Code Kind = "code" // VS Code in the browser, without a Jupyter server
	Job  Kind = "job"  // one batch job in a frozen environment
	// Kernel is a single Jupyter kernel. Its user starts it, not their Hub.
	Kernel Kind = "kernel"
)

// Batch reports whether workloads of this kind run to their end by themselves, and nobody works in them. They wait in
// line by fair share and count towards their owner's quotas. They run at most once a try, and leave an outcome, a log
// and files.
func (k Kind) Batch() bool { return k == Job }

// Session reports whether workloads of this kind are sessions: their users work in them until they are stopped.
func (k Kind) Session() bool { return !k.Batch() }

// HubServer reports whether sessions of this kind are servers that a hub knows and starts.
func (k Kind) HubServer() bool { return k == Lab || k == Code }

// Ephemeral reports whether a session of this kind keeps nothing when it ends: there is nothing to come back to, and
// stopping it is removing it.
func (k Kind) Ephemeral() bool { return k == Kernel }

// Jupyter reports whether what runs in sessions of this kind is Jupyter's, and tells of its kernels by itself.
func (k Kind) Jupyter() bool { return k == Lab || k == Kernel }

// Title names a kind to its user.
func (k Kind) Title() string {
	switch k {
	case Lab:
		return "JupyterLab"
	case Code:
		return "VS Code"
	case Job:
		return "the job"
	case Kernel:
		return "the kernel"
	default:
		return string(k)
	}
}

// Noun is what one workload of this kind is called.
func (k Kind) Noun() string {
	switch {
	case k.Batch():
		return "job"
	case k.Ephemeral():
		return "kernel"
	default:
		return "session"
	}
}
