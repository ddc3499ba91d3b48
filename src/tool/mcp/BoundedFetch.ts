/**
 * `fetch` with answers of bounded size. In a stream of events the bound holds for each event, as the stream itself may go on
 * for days.
 *
 * @since 0.1.0
 */

type Fetch = (url: string | URL, init?: RequestInit) => Promise<Response>

const newline = 0x0a
const carriageReturn = 0x0d

/** Fails the body once more than `maxBytes` come without a blank line (`perEvent`), or at all. */
const bounded = (maxBytes: number, perEvent: boolean): TransformStream<Uint8Array, Uint8Array> => {
  let bytes = 0
  let lineIsEmpty = true
  return new TransformStream({
    transform: (chunk, controller) => {
      if (perEvent) {
        for (const byte of chunk) {
          bytes = byte === newline && lineIsEmpty ? 0 : bytes + 1
          if (byte !== carriageReturn) lineIsEmpty = byte === newline
        }
      } else {
        bytes += chunk.length
      }
      if (bytes > maxBytes) {
        controller.error(new Error(`the answer is larger than ${maxBytes / 1024 / 1024} MB and was not kept: ask for less`))
      } else {
        controller.enqueue(chunk)
      }
    }
  })
}

/** See the module. */
export const make = (fetch: Fetch, maxBytes: number): Fetch => async (url, init) => {
  const response = await fetch(url, init)
  if (response.body === null) return response
  const perEvent = response.headers.get("content-type")?.includes("text/event-stream") ?? false
  const { headers, status, statusText } = response
  return new Response(response.body.pipeThrough(bounded(maxBytes, perEvent)), { headers, status, statusText })
}
