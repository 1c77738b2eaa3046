package htcondor

// Title is the batch system's name as its people write it.
func (b *Backend) Title() string { return "HTCondor" }
