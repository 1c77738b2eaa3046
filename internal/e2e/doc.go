// Package e2e tests the built program with the real parts of a site: JupyterHubs, Docker Engine, Apptainer, a pool of
// HTCondor, servers of XRootD, OpenSSH's clients, JupyterLab in a browser.
package e2e
