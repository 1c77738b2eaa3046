// Package spawner has the words of the engine: what a workload (a session or a job) is, how far it has come, how it
// ended, who may see and change it, and what a backend is that runs it.
//
// Promises: what is here is the stored form of a workload, so a field keeps its key; a method says only what a record
// says of itself. It decides nothing, does nothing and holds nothing: that is for the packages below it, of which
// spawner/engine is the one that acts. It must import neither these nor a backend, and knows nothing of images beyond
// their names, nor of HTTP.
package spawner

import "strings"

// ID names a workload for ever: "s-" or "j-" and 16 lower-case letters and digits. It is safe in paths, labels and host
// names.
type ID string

// OfJob tells a job from a session by the ID alone.
func (id ID) OfJob() bool { return strings.HasPrefix(string(id), "j-") }

// User is a person's name as the Hub has it, unchanged: case counts, and it may hold any characters.
type User string

// Principal is a user of a hub.
type Principal struct {
	Hub  string
	User User
}

// Key names p in the store.
func (p Principal) Key() string { return p.Hub + "/" + string(p.User) }

// Want is what the owner wants of a workload.
type Want string

// The wants.
const (
	WantRunning Want = "running"
	WantStopped Want = "stopped" // a session: stop, keep the changes. A job: cancel
	WantGone    Want = "gone"    // remove it with all that it left, and forget it
)

// Phase is how far a workload has come. The Manager saves it before it acts on it.
type Phase string

// The phases.
const (
	Pending  Phase = "pending"  // saved; holds nothing; waits for room
	Leased   Phase = "leased"   // its resources are its own; nothing runs yet
	Starting Phase = "starting" // the backend was asked to start it
	Booting  Phase = "booting"  // its agent is there and has been given the app
	Running  Phase = "running"  // a session answers; a job's payload runs
	Stopping Phase = "stopping" // is being ended
	Stopped  Phase = "stopped"  // holds nothing; a session's changes are kept, a job's outcome is known
	Removing Phase = "removing" // all that it left is being removed
)

// Active reports whether a workload of this phase holds resources or is about to.
func (p Phase) Active() bool { return p != Stopped && p != Removing }

// Account is who a workload runs as.
type Account struct {
	UID, GID int
	Groups   []Group // beside the first: what they let in is hers in workloads of this host
	Login    string  // fit for a line of /etc/passwd
	HomeDir  string  // on this host
	Home     string  // inside the workload
}

// Group is a group of this host.
type Group struct {
	ID   int
	Name string // fit for a line of /etc/group
}

// Area is a directory beside the home.
type Area struct {
	Name    string // a word of lower-case letters, digits and _
	Source  string // on this host
	Target  string // inside
	Write   bool   // it may be written to
	Follows bool   // what is mounted in it later is to be seen inside
}

// AreaEnv begins the names of the variables that say where areas are.
const AreaEnv = "SLIPWAY_AREA_"
