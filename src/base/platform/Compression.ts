/** Decodes HTTP bodies by their `Content-Encoding`, and compresses and decompresses files. */
import * as NodeStream from "@effect/platform-node-shared/NodeStream"
import * as Stream from "effect/Stream"
import { PassThrough, pipeline, type Readable, Transform } from "node:stream"
import * as Zlib from "node:zlib"

const flush = { flush: Zlib.constants.Z_SYNC_FLUSH, finishFlush: Zlib.constants.Z_SYNC_FLUSH }

/** Value of the low four bits in the first byte of a zlib stream. */
const zlibMethod = 8

/** Decodes `deflate`, which some servers send with the zlib header and some without. */
const makeInflate = (): Transform => {
  let inner: Transform | undefined
  const outer = new Transform({
    transform(chunk: Buffer, _, done) {
      if (inner === undefined) {
        inner = ((chunk[0] ?? 0) & 0x0f) === zlibMethod ? Zlib.createInflate(flush) : Zlib.createInflateRaw(flush)
        inner.on("data", (data: Buffer) => outer.push(data))
        inner.on("error", (error) => outer.destroy(error))
      }
      inner.write(chunk, done)
    },
    flush(done) {
      if (inner === undefined) done()
      else inner.once("end", done).end()
    }
  })
  return outer
}

const makeDecoder = (encoding: string): Transform | undefined => {
  switch (encoding) {
    case "gzip":
    case "x-gzip":
      return Zlib.createGunzip(flush)
    case "deflate":
      return makeInflate()
    case "br":
      return Zlib.createBrotliDecompress({
        flush: Zlib.constants.BROTLI_OPERATION_FLUSH,
        finishFlush: Zlib.constants.BROTLI_OPERATION_FLUSH
      })
    case "zstd":
      return Zlib.createZstdDecompress({ flush: Zlib.constants.ZSTD_e_flush, finishFlush: Zlib.constants.ZSTD_e_flush })
    default:
      return undefined
  }
}

/**
 * Decodes a body by the value of its `Content-Encoding` header, which may list several encodings. With an unknown
 * encoding the body is returned unchanged. An error of any stage destroys the returned stream.
 */
export const withoutEncodings = (body: Readable, contentEncoding: string): Readable => {
  const encodings = contentEncoding
    .toLowerCase()
    .split(",")
    .map((name) => name.trim())
    .filter((name) => name !== "" && name !== "identity")
  if (encodings.length === 0) return body
  const stages = encodings.toReversed().map(makeDecoder)
  const known = stages.filter((stage) => stage !== undefined)
  if (known.length < stages.length) return body
  const last = new PassThrough()
  pipeline([body, ...known, last], () => {})
  return last
}

/** Compresses a stream of bytes with gzip. */
export const gzip = <E, R>(bytes: Stream.Stream<Uint8Array, E, R>): Stream.Stream<Uint8Array, E, R> =>
  // Compression does not fail for any input.
  Stream.catch(
    NodeStream.pipeThroughDuplex(
      Stream.mapError(bytes, (error) => ({ error })),
      { evaluate: () => Zlib.createGzip() }
    ),
    (failure) => ("error" in failure ? Stream.fail(failure.error) : Stream.die(failure))
  )

/**
 * Decompresses a stream of gzip data, which may consist of several parts. `toError` makes the failure for data that is
 * not gzip, or is damaged or cut.
 */
export const gunzipStream = <E, R, Damage>(
  bytes: Stream.Stream<Uint8Array, E, R>,
  toError: () => Damage
): Stream.Stream<Uint8Array, E | Damage, R> =>
  Stream.mapError(
    NodeStream.pipeThroughDuplex(
      Stream.mapError(bytes, (error) => ({ error })),
      { evaluate: () => Zlib.createGunzip(), onError: () => ({ damage: toError() }) }
    ),
    (failure) => ("error" in failure ? failure.error : failure.damage)
  )

/** Compresses a whole string or byte array with gzip. */
export const gzipBytes = (content: string | Uint8Array): Promise<Uint8Array> =>
  new Promise((resolve, reject) => {
    Zlib.gzip(content, (error, bytes) => (error === null ? resolve(bytes) : reject(error)))
  })

/**
 * Decompresses gzip data. Returns `undefined` if the data is not gzip or is damaged, or if the result is larger than
 * `most` bytes.
 */
export const gunzip = (bytes: Uint8Array, most: number): Uint8Array | undefined => {
  try {
    return Zlib.gunzipSync(bytes, { maxOutputLength: most })
  } catch {
    return undefined
  }
}

/** Decoders for compressed blocks, by the names that columnar file formats use for the compression. */
export const blockDecoders: Readonly<Record<"BROTLI" | "GZIP" | "ZSTD", (bytes: Uint8Array) => Uint8Array>> = {
  BROTLI: (bytes) => Zlib.brotliDecompressSync(bytes),
  GZIP: (bytes) => Zlib.gunzipSync(bytes),
  ZSTD: (bytes) => Zlib.zstdDecompressSync(bytes)
}
