package config

// Data is what the site's data areas are to workloads.
type Data struct {
	CVMFS   CVMFS            `yaml:"cvmfs"`
	Stacks  []Stack          `yaml:"stacks"`
	Storage []StorageElement `yaml:"storage"`
	Areas   []Area           `yaml:"areas"`
}

func defaultData() Data {
	return Data{CVMFS: defaultCVMFS(), Stacks: []Stack{}, Storage: []StorageElement{}, Areas: []Area{}}
}
