// Package replication keeps copies of environments in stores beside the library, and brings content back from them.
//
// What it promises: what the library has is written to every store, sooner or later: one that is down, full or slow is
// tried again, after a restart too. A store has an environment's document last, so whatever has the document has all of
// it. What the library has let go of goes from the stores some days later, and never all at once: a library that was
// lost does not take its copies with it. What comes back has the digest that was asked for; a copy that has not is
// written anew as soon as there is good content to write, and not taken away before. What it must not do: know what an
// environment is made of, or whose it is.
package replication
