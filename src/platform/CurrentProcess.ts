/**
 * Facts of the process that this program is.
 */

/** Path of the Node that runs this program. */
export const nodePath = process.execPath

/** Version of the Node that runs this program. */
export const nodeVersion = process.versions.node

/** The working directory of this process. */
export const workingDirectory = (): string => process.cwd()
