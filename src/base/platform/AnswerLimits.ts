/** Limits of HTTP answers of models, which every transport applies. */

/** Maximum number of redirects that are followed for one request. */
export const maxRedirects = 5

/** Maximum size of the body of an error answer, in bytes; longer bodies are cut. */
export const maxErrorBytes = 16 * 1024 * 1024

/**
 * Maximum number of bytes of a body that is read as a whole, and of a stream over its lifetime. More data causes an
 * error, because it is considered endless.
 */
export const maxBytes = { whole: 64 * 1024 * 1024, stream: 512 * 1024 * 1024 }

/** Error code for a stream that sends no bytes for too long. */
export const silentCode = "ERR_STREAM_SILENT"

/** Creates the error for a stream that sent no bytes for the given time. */
export const makeSilenceError = (millis: number): Error =>
  Object.assign(new Error(`no byte for ${Math.round(millis / 1_000)} s`), { code: silentCode })

/** Creates the error for a body above its maximum size. */
export const makeTooLargeError = (bytes: number): Error =>
  new Error(`the answer is larger than ${bytes / 1024 / 1024} MiB`)

/** Tests whether a status of HTTP is a success (2xx). */
export const isSuccess = (status: number): boolean => status >= 200 && status <= 299

/** Status codes of redirects. */
export const redirects: ReadonlySet<number> = new Set([301, 302, 303, 307, 308])

/** Tests whether a redirect repeats the request. Otherwise it becomes a GET without a body, as in `fetch`. */
export const shouldRepeatRequest = (status: number, method: string): boolean =>
  status > 303 || method === "GET" || method === "HEAD"
