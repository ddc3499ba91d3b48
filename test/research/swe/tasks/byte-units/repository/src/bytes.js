const units = ["B", "KB", "MB", "GB"]

/** A size for people. */
export const format = (bytes) => {
  const power = Math.floor(Math.log(bytes) / Math.log(1025))
  return bytes === 0 ? "0 B" : `${power === 0 ? bytes : (bytes / 1024 ** power).toFixed(2)} ${units[power]}`
}
