// Package control is what the service and an agent say to each other about the one app that the agent supervises: the
// wire types, the paths inside a workload, and the service's client. It is HTTP over the control door of the workload's
// tunnel.
//
//	GET  /status          Status
//	GET  /watch           Status after Status, one JSON a line, each time it changes; the first at once
//	PUT  /files/{name}    an input file into the work directory, before the launch
//	POST /app             App: launch it; 409 when one was launched already (the same launch may be repeated: 204)
//	GET  /log?from=N      the app's output from byte N on (raw); with &follow=1 until the app has exited
//	GET  /files/{name}    an output file from the work directory
//	GET  /activity        Activity
//	POST /changes         ChangesRequest: what the workload has changed over its image, as package images/changeset streams it
//	POST /notify          {"text": "..."}: one line on each of the workload's terminals, if there are any
//	PUT  /credentials     Credentials: the files of CredentialsDir from now on
//	POST /doctor          run App.Doctor once more; one that runs already is as good
//	GET  /kernel          KernelStatus; 404 where the app is no kernel
//	POST /kernel/interrupt  stop what the kernel computes
//	POST /kernel/restart  end the kernel's process and start another; answers when that does
//	POST /end             end the app (SIGTERM, grace, SIGKILL), then the agent itself
//
// An agent may be older than the service that it dials, and newer: fields that one side does not know are left out by
// the other, and a request that the agent does not know is an error of kind NotFound, which says so. Agents that are
// told to launch an App with fields they do not know launch it without.
//
// The package must not know how a workload is started; it knows one running agent.
package control

import "time"

// Paths inside every workload, on every backend.
const (
	RunDir     = "/run/slipway"            // writable by the workload's user, not part of any environment
	BinDir     = RunDir + "/bin"           // read-only; holds the agent's program `slipway`
	Program    = BinDir + "/slipway"       //
	LinkDir    = RunDir + "/link"          // read-only; holds the service's socket
	LinkSocket = LinkDir + "/service.sock" // the agent dials it
	// The agent listens: programs in the workload reach the service as that workload.
	APISocket = RunDir + "/api.sock"
	WorkDir   = RunDir + "/work"    // a job's files and working directory
	LogFile   = RunDir + "/app.log" // the app's output
	RescueDir = RunDir + "/rescue"  // what programs keep in the home otherwise, where that may be full
	KernelDir = RunDir + "/kernel"  // its user's alone: a kernel's connection file and sockets
	// Its user's alone: VS Code's socket, and what it keeps for as long as the session runs.
	CodeDir    = RunDir + "/code"
	SocketEnv  = "SLIPWAY_SOCKET"      // names APISocket to programs
	IDEnv      = "SLIPWAY_ID"          // the workload's id
	FileLimit  = int64(1) << 30        // most bytes of one input or output file
	LogLimit   = int64(257) << 20      // most bytes of a job's output: more than an agent keeps
	ReadyEvery = 20 * time.Millisecond // how often the agent asks the app whether it answers
)

// VS Code beside another app, on the paths of visitors.
const (
	CodePath = "vscode/" // below the session's prefix
	// Begins the states of its logins by the Hub, which sends all of a session's visitors back to the same path.
	CodeState = "vscode-"
)

// Env is a process environment. It carries secrets and so cannot be printed.
type Env map[string]string

// String hides the values.
func (Env) String() string { return "[environment]" }

// GoString hides the values.
func (Env) GoString() string { return "[environment]" }

// App is what the agent is to run. It is sent once, over the tunnel only: nothing of it is in the container's
// configuration.
type App struct {
	Launch string   `json:"launch"` // names this launch, so that repeating it is harmless
	Argv   []string `json:"argv"`
	Env    Env      `json:"env"` // added to the agent's own environment
	Dir    string   `json:"dir"` // working directory; created when it is missing. Empty: WorkDir
	// HTTP says that the app serves HTTP on a port of the loopback that the agent chooses. The agent puts it in place
	// of the port in JUPYTERHUB_SERVICE_URL, and its own relay in place of the Hub's address in JUPYTERHUB_API_URL and
	// JUPYTERHUB_ACTIVITY_URL: the app needs no route to the Hub.
	HTTP bool `json:"http"`
	// Jupyter says that an HTTP app has Jupyter Server's REST API below JUPYTERHUB_SERVICE_PREFIX and lets its own
	// JUPYTERHUB_API_TOKEN in. The agent then asks it what its kernels and terminals do.
	Jupyter bool `json:"jupyter,omitempty"`
	// Stacks are kernels that a Jupyter app finds by JUPYTER_PATH, beside its own.
	Stacks []Stack `json:"stacks,omitempty"`
	// Slices says that the service has kernels on slices: the app finds them by JUPYTER_PATH, beside those of its own.
	Slices bool `json:"slices,omitempty"`
	// Code says that an HTTP app is code-server, which knows nothing of the Hub and takes no port: the agent adds to
	// Argv where it listens and keeps its files, lets its visitors in by itself, and takes Ready for itself too. Beside
	// an app that is another, the agent starts code-server when somebody asks for it.
	Code bool `json:"code,omitempty"`
	// Rescue says that the home may be full: what programs keep there by themselves is to lie in RescueDir.
	Rescue bool `json:"rescue,omitempty"`
	// SelfTest is run before the app, where there is one. If it fails, the app is not started and Status.Fault says
	// why.
	SelfTest *SelfTest `json:"self_test,omitempty"`
	// Doctor is a program that looks at what the workload's user has of data, and tells the service what it finds. It
	// is run once an HTTP app answers, and when it is asked for. Empty: there is none.
	Doctor []string `json:"doctor,omitempty"`
	// Kernel says that the app is a kernel. The agent puts the path of its connection file in place of ConnectionFile
	// in Argv, starts it again when it ends by itself, and takes it for ready once it answers. An agent that does not
	// know this starts Argv as it is.
	Kernel *KernelApp `json:"kernel,omitempty"`
	// Standby says that the app is not to be started yet: the agent does beforehand what can be done of its start, and
	// stays Idle.
	Standby bool `json:"standby,omitempty"`
	// Ready is the path that answers with a status below 500 once an HTTP app is up. Empty: the app is ready when it
	// runs.
	Ready string `json:"ready,omitempty"`
	// Grace is how long the app may take to end after SIGTERM. Zero: 10 s.
	Grace time.Duration `json:"grace,omitempty"`
}

// SelfTest is a program that looks whether what the workload was given works. It gets the agent's environment, and of
// the app's what concerns GPUs. It ends with 0 when all is well, with 1 and a last line "failed: <why>" when it is not,
// and with 77 when there is nothing to test. That it crashed, or did not end in time, is a fault as well. Anything else
// means that it could not be run, as in an image with another libc: then, as after 77, the app is started all the same.
type SelfTest struct {
	Argv    []string      `json:"argv"`
	Timeout time.Duration `json:"timeout"` // zero: 30 s
	// Required says that a test which could not be run, or found nothing to test, has failed too.
	Required bool `json:"required,omitempty"`
}

// State is where the app is.
type State string

// The states of an app, in order.
const (
	Idle     State = "idle"     // the agent waits for the launch
	Starting State = "starting" // runs, does not answer yet
	Ready    State = "ready"
	// Status.ExitCode and Status.Reason say how; the agent stays for log and files until it is ended.
	Exited State = "exited"
)

// Status is the agent's account of its app.
type Status struct {
	Launch   string `json:"launch,omitempty"`
	State    State  `json:"state"`
	ExitCode int    `json:"exit_code"`        // 128+n after signal n, as shells have it
	Reason   string `json:"reason,omitempty"` // why it could not be started or ended by a signal, in plain words
	// It was ended because the agent is: who ends a job of a batch system asks that first.
	Leaving  bool      `json:"leaving,omitempty"`
	Fault    string    `json:"fault,omitempty"` // what the self-test found; the app was not started
	LogSize  int64     `json:"log_size"`
	Files    []File    `json:"files,omitempty"` // of the work directory, once the app has exited
	Started  time.Time `json:"started,omitzero"`
	Ended    time.Time `json:"ended,omitzero"`
	MaxRSS   int64     `json:"max_rss,omitempty"` // bytes, the app's largest process
	CPU      float64   `json:"cpu,omitempty"`     // seconds, user and system
	Progress *Progress `json:"progress,omitempty"`
	// OutOfMemory says that the app goes on, though some of its processes were killed for want of memory. Nil: none
	// was.
	OutOfMemory *OutOfMemory `json:"out_of_memory,omitempty"`
}

// OutOfMemory counts the processes that the kernel has killed for want of memory.
type OutOfMemory struct {
	Kills int64 `json:"kills"` // since the app was started
	Limit int64 `json:"limit"` // bytes
	Peak  int64 `json:"peak"`  // bytes, the most that was in use at once; 0: not known
}

// Progress is what a job's payload says of how far it is, by ProgressFile.
type Progress struct {
	Done float64 `json:"done"`
	Of   float64 `json:"of"`             // 0: it is not known of how much
	Text string  `json:"text,omitempty"` // one line, at most ProgressLimit bytes
}

// A payload writes a Progress as JSON into ProgressFile, which ProgressEnv names to it, by writing another file and
// renaming it. The agent looks at it every second.
const (
	ProgressFile  = RunDir + "/progress.json"
	ProgressEnv   = "SLIPWAY_PROGRESS"
	ProgressLimit = 200
)

// File is one file of the work directory.
type File struct {
	Name string `json:"name"`
	Size int64  `json:"size"`
}

// Activity is what goes on in a session. It has ages, not times: the agent's clock may be wrong.
type Activity struct {
	Asked     bool `json:"asked"`             // the app could be asked; if not, the fields up to SSH say nothing
	Kernels   int  `json:"kernels"`           //
	Busy      int  `json:"busy"`              // kernels that compute
	Terminals int  `json:"terminals"`         //
	SSH       int  `json:"ssh,omitempty"`     // open channels of ssh connections
	Editors   int  `json:"editors,omitempty"` // open windows of VS Code
	Left      bool `json:"left,omitempty"`    // the app is a kernel that no client is connected to
	// How many messages of a kernel were not kept for clients that were away, since the agent began.
	Dropped int64  `json:"dropped,omitempty"`
	Deaths  Deaths `json:"deaths,omitzero"` // of a kernel's processes, since the agent began
	// Seconds since any of these last did something, closed ones too; -1: none ever did.
	Quiet float64 `json:"quiet"`
	// CPU seconds that the workload's processes have used since the agent began, its own left out.
	CPU float64 `json:"cpu"`
	// Bytes of memory that they use now; 0: it is not known.
	Memory int64 `json:"memory,omitempty"`
}

// Deaths counts the processes of a kernel that ended without being asked to and that another took the place of, by why
// they did.
type Deaths struct {
	Memory int `json:"memory,omitempty"` // it needed more than it may have
	Signal int `json:"signal,omitempty"`
	Exit   int `json:"exit,omitempty"`
}

// NoticeLimit is how many bytes of a notice are shown.
const NoticeLimit = 500

// Notice is what the people in a session are to be told.
type Notice struct {
	Text string `json:"text"`
}
