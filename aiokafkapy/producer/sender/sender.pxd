# sender.py is compiled as it is: it has no class whose fields need types.
