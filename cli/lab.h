/* gossamer lab: executes the lab, which is a Python package. */
#ifndef GS_CLI_LAB_H
#define GS_CLI_LAB_H

/* Replace the process by Python: $GOSSAMER_PYTHON, or .venv/bin/python of the checkout that holds
 * the program, which is passed on in GOSSAMER_PROGRAM. argv[0] is "lab". Returns only on failure:
 * the exit status, after printing a line to stderr. */
int cli_lab_main(int argc, char **argv);

#endif
