/** The same day some months later, as YYYY-MM-DD. */
export const addMonths = (date, months) => {
  const day = new Date(`${date}T00:00:00Z`)
  day.setUTCMonth(day.getUTCMonth() + months)
  return day.toISOString().slice(0, 10)
}
