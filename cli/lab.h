/* gossamer lab: hands over to the lab, which is a Python package. */
#ifndef GS_CLI_LAB_H
#define GS_CLI_LAB_H

/* argv[0] is "lab". Becomes Python: $GOSSAMER_PYTHON, else that of the source tree's .venv, with
 * this program's path in GOSSAMER_PROGRAM. Returns only on failure, the program's exit status,
 * after one line on stderr. */
int cli_lab_main(int argc, char **argv);

#endif
