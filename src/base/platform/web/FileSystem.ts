/** The functions of `node:fs` and `node:os` that an agent calls, for places without files. */

/** Reports that the file does not exist. */
export const existsSync = (): boolean => false

/** Creates the system error for a file that does not exist. */
const makeMissing = (path: string): Error =>
  Object.assign(new Error(`ENOENT: no such file or directory, open '${path}'`), { code: "ENOENT" })

/** Throws the error for a file that does not exist. */
export const readFileSync = (path: string | URL): never => {
  throw makeMissing(String(path))
}

/** Throws the error for a directory that does not exist. */
export const statfsSync = readFileSync

/** Returns a directory for temporary files, although no file can be written. */
export const tmpdir = (): string => "/tmp"

/** Returns the name of a machine that is not known. */
export const hostname = (): string => "localhost"

/** Returns the home directory, although it contains no files. */
export const homedir = (): string => "/"

/** The memory of the machine, which is not known. */
export const totalmem = (): number => 0
