package spawner

import (
	"time"
)

// ActiveSession is when something last went on in a running session.
type ActiveSession struct {
	User   User
	Name   string
	Active time.Time
}

// Server is one server that a Hub knows: it runs, or its start or stop is under way.
type Server struct {
	User User
	Name string // empty for the default server
}

// Roster is what a Hub says that its servers are.
type Roster struct {
	Hub     string
	Asked   time.Time     // when the question was put
	Age     time.Duration // younger sessions are not judged: the Hub may not have noted them yet
	Stop    bool          // stop strangers; otherwise they are only counted
	Servers []Server
}

// HubReconcileReport is what came of ReconcileHub.
type HubReconcileReport struct {
	Strangers int  // active sessions that the Hub did not know, twice in a row
	Stopped   []ID // of these
}
