package sshd

import "golang.org/x/sys/unix"

// The settings of terminals that RFC 4254 section 8 (and RFC 8160, for UTF-8) numbers, in the order of their numbers.
const (
	firstChar    = 1
	firstInput   = 30
	firstLocal   = 50
	firstOutput  = 70
	firstControl = 90
	noChar       = -1 // this system has none
	disabled     = 255
)

func modeChars() []int {
	return []int{
		unix.VINTR, unix.VQUIT, unix.VERASE, unix.VKILL, unix.VEOF, unix.VEOL, unix.VEOL2, unix.VSTART, unix.VSTOP,
		unix.VSUSP, noChar,
		unix.VREPRINT, unix.VWERASE, unix.VLNEXT, noChar, unix.VSWTC, noChar, unix.VDISCARD,
	}
}

func modeInput() []uint32 {
	return []uint32{
		unix.IGNPAR, unix.PARMRK, unix.INPCK, unix.ISTRIP, unix.INLCR, unix.IGNCR, unix.ICRNL, unix.IUCLC, unix.IXON,
		unix.IXANY, unix.IXOFF,
		unix.IMAXBEL, unix.IUTF8,
	}
}

func modeLocal() []uint32 {
	return []uint32{
		unix.ISIG, unix.ICANON, unix.XCASE, unix.ECHO, unix.ECHOE, unix.ECHOK, unix.ECHONL, unix.NOFLSH, unix.TOSTOP,
		unix.IEXTEN, unix.ECHOCTL,
		unix.ECHOKE, unix.PENDIN,
	}
}

func modeOutput() []uint32 {
	return []uint32{unix.OPOST, unix.OLCUC, unix.ONLCR, unix.OCRNL, unix.ONOCR, unix.ONLRET}
}

func modeControl() []uint32 { return []uint32{unix.CS7, unix.CS8, unix.PARENB, unix.PARODD} }

// apply makes one setting; those of which nothing is known, and speeds, are left out.
func apply(t *unix.Termios, m mode) {
	code := int(m.code)
	switch {
	case code >= firstControl:
		flag(&t.Cflag, modeControl(), code-firstControl, m.value)
	case code >= firstOutput:
		flag(&t.Oflag, modeOutput(), code-firstOutput, m.value)
	case code >= firstLocal:
		flag(&t.Lflag, modeLocal(), code-firstLocal, m.value)
	case code >= firstInput:
		flag(&t.Iflag, modeInput(), code-firstInput, m.value)
	case code >= firstChar:
		character(t, code-firstChar, m.value)
	}
}

func flag(flags *uint32, known []uint32, n int, on uint32) {
	switch {
	case n >= len(known):
	case on != 0:
		*flags |= known[n]
	default:
		*flags &^= known[n]
	}
}

func character(t *unix.Termios, n int, value uint32) {
	known := modeChars()
	if n >= len(known) || known[n] == noChar || value > disabled {
		return
	}
	if value == disabled {
		value = 0 // as this system has it
	}
	t.Cc[known[n]] = uint8(value)
}
