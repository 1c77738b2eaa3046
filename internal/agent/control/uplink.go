package control

// Where an agent on another host finds how it reaches the service, and what it is to start by itself. Both lie in
// LinkDir; the first holds a secret, and is the workload's user's alone.
const (
	UplinkFile = LinkDir + "/uplink.json"
	AppFile    = LinkDir + "/app.json"
	LastDir    = RunDir + "/last"          // what an agent that is about to end leaves of itself
	LastStatus = LastDir + "/status.json"  // its last Status
	LastPack   = LastDir + "/changes.pack" // a session's changes, as package images/changeset streams them
)

// Uplink is how an agent reaches the service from another host.
type Uplink struct {
	URL   string `json:"url"`   // of the link, wss://
	Token string `json:"token"` // lets in one run of one workload, to its link and its image
	// PEM: what the service's certificate is checked against; empty: what the worker's host trusts.
	CA    string `json:"ca,omitempty"`
	Image string `json:"image,omitempty"` // where the workload's image can be had with the same token, https://
}

// String hides the token.
func (u Uplink) String() string { return "uplink to " + u.URL }

// GoString hides the token.
func (u Uplink) GoString() string { return u.String() }
