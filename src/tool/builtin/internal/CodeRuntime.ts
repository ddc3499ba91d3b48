/**
 * The program that runs this one, to run scripts with.
 *
 * @since 0.1.0
 */

/** Path of Node. */
export const node = process.execPath
