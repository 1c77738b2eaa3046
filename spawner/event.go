package spawner

import "time"

// Event is one step of a workload's start or end, for its owner to read.
type Event struct {
	Seq     int64     `json:"seq"` // grows; also over a restart of the service
	Launch  string    `json:"launch"`
	Time    time.Time `json:"time"`
	Percent int       `json:"percent"` // of the way to running; -1: unknown
	Message string    `json:"message"`
	Final   bool      `json:"final"` // a session answers or its start failed; a job has ended
	Failed  bool      `json:"failed"`
}
