/** The process's working directory. */
export const workingDirectory = (): string => process.cwd()
