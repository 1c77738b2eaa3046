package control

// JupyterDir is where the agent puts what a session's Jupyter Server is to find beside what is its own: JUPYTER_PATH
// names it.
const JupyterDir = RunDir + "/jupyter"

// Stack is software that a script sets up: a kernel in the launcher of a Jupyter Server.
type Stack struct {
	Name     string            `json:"name"`     // a plain one
	Title    string            `json:"title"`    // what the launcher shows
	Setup    string            `json:"setup"`    // the script
	Python   string            `json:"python"`   // the program that has ipykernel once the script has run
	Language string            `json:"language"` // of its notebooks
	Env      map[string]string `json:"env,omitempty"`
	Logo     []byte            `json:"logo,omitempty"`
	LogoExt  string            `json:"logo_ext,omitempty"` // .png or .svg
}
