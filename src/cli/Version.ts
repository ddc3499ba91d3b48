/**
 * The version of the program; a test compares it with the package's.
 *
 * @since 0.1.0
 */

/** See the module. */
export const version = "0.1.0"
