/** The program that runs JavaScript: the one that runs this. */
export const node = process.execPath
