all: x y z
x y z:
	sleep 0.05; echo $@ > $@
