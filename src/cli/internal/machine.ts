/** The version of this Node. */
export const nodeVersion = (): string => process.versions.node

/** The process's working directory. */
export const workingDirectory = (): string => process.cwd()
