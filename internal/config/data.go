package config

// Data is what the site's data areas are to workloads.
type Data struct {
	Storage []StorageElement `yaml:"storage"`
}

func defaultData() Data { return Data{Storage: []StorageElement{}} }
