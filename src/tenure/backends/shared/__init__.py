"""What several backends share, and nothing above them needs: amendments, polled watches, URLs of servers."""
