// Package inventory says what is in an environment: packages as pip, conda, apt, spack and R see them, Python
// interpreters, what it needs of a GPU's driver, git checkouts, kernels, and files that belong to no package.
//
//	Look          image (and what is known of its base) -> Inventory
//	Compare       two inventories -> Difference, for people and as JSON
//	Files         two trees -> what was added, changed and removed
//	SPDX          inventory -> SBOM
//	HomePackages  a home directory -> its packages; NotIn -> those of them that a job would miss
//	SmokePlan     modules that kernels had imported -> a command that imports them, and the parser of its answer
//
// What it promises: equal trees give equal inventories, byte for byte as JSON. It reads no file whole that it does not
// need, and no more than a bound of any, whatever the tree holds: names, sizes and contents are a user's. What it could
// not read stands in the inventory as trouble. No URL leaves it with a user, a password or a query.
//
// What it must not do: run anything, look at the host, or guess. What cannot be told from the files alone is "unknown".
package inventory
